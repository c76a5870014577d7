// The client of hey-api, for modules of Node.js, which name a file with its extension.
export default {
  input: process.env.DOCUMENT,
  output: { path: 'generated/hey-api', module: { extension: '.js' } },
  plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
};
