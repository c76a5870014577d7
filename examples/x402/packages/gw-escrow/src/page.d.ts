/** The page that page/ gives; build.mjs puts it here. */
export const PAGE: {
  script: string;
  style: string;
  /** For a Content-Security-Policy: `sha256-…`. */
  scriptHash: string;
  styleHash: string;
  texts: { title: string; lead: string; noscript: string };
};
