// Where the dashboard begins.
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError, redeemTicket } from "./api/client";
import { config } from "./app/config";
import { live } from "./app/live";
import { parseSearch, router } from "./app/router";
import { applyTheme } from "./app/theme";
import "./app/tokens.css";
import { listOf } from "./lib/list";
import { ME } from "./lib/me";
import { rangeOf, summaryOf } from "./lib/sums";

applyTheme();

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // Live updates say when something is old; this is for what they do not tell of.
      staleTime: 2000,
      // What was refused is refused again.
      retry: (count, error) => count < 2 && error instanceof ApiError && (error.status === 0 || error.status >= 500),
      // Numbers stay on the screen while newer ones are on their way.
      placeholderData: (before: unknown) => before,
    },
  },
});

/// What the server had the browser ask for when it gave it the document (`http/preload.rs`): whoever opens the dashboard sees the first
/// rows or numbers at once, and not first that they come. What takes longer than a blink is waited for on the page.
const BLINK = 60;

function first(): Promise<unknown> | undefined {
  const search = parseSearch(location.search);
  switch (location.pathname) {
    case config.base:
      return Promise.all([client.prefetchQuery(summaryOf(rangeOf(search))), client.prefetchQuery(ME)]);
    case `${config.base}runs`:
      return Promise.all([client.prefetchInfiniteQuery(listOf(search)), client.prefetchQuery(ME)]);
  }
}

async function begin() {
  await redeemTicket();
  const isThere = first();
  if (isThere) await Promise.race([isThere, new Promise((resolve) => setTimeout(resolve, BLINK))]);
  live.start(client);
  createRoot(document.getElementById("root")!).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </StrictMode>,
  );
}
void begin();
