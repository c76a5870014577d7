import {
  BY_TOKEN,
  PERMIT2,
  deposit,
  evmPayer,
  messagesFor,
  toJson
} from "./shared-C3CHOMHS.js";
import "./shared-UDSO6T45.js";
import "./shared-EJZXPSA6.js";
export {
  BY_TOKEN,
  PERMIT2,
  deposit,
  evmPayer,
  messagesFor,
  toJson
};
