import {
  PERMIT2,
  deposit,
  evmPayer,
  toJson
} from "./shared-QHI63NFP.js";
import "./shared-QW7TA72N.js";
import "./shared-EJZXPSA6.js";
export {
  PERMIT2,
  deposit,
  evmPayer,
  toJson
};
