// Whether the API has these; vite.config.ts looks.
declare const __HAS_SESSIONS__: boolean;
declare const __HAS_CHECKS__: boolean;
