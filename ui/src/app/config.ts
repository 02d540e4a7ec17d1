// What the server wrote into the document: where it is mounted, which version it is, and what the installation is called.
interface Config {
  base: string;
  version: string;
  /// What people call this installation, where somebody said so.
  environment?: string | null;
  /// Whom pages may ask to decode payloads: an origin.
  codec?: string | null;
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
