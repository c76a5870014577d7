// The gateway that the shop named.

import { Gateway } from '../../../../../sdk/typescript/src/gateway.js';
import { gatewayUrl } from './offer.js';

export const gateway = new Gateway(gatewayUrl, { retries: 2, pauseMs: 500, pauseMsMax: 2000, timeoutMs: 20_000 });
