// What the server wrote into the document: where it is mounted, and which version it is.
interface Config {
  base: string;
  version: string;
}

function read(): Config {
  try {
    return JSON.parse(document.getElementById("config")?.textContent ?? "") as Config;
  } catch {
    // Vite's own server fills in nothing.
    return { base: "/", version: "development" };
  }
}

export const config = read();
