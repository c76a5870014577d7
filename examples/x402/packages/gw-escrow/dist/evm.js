import {
  PERMIT2,
  deposit,
  evmPayer,
  toJson
} from "./shared-TV6D43PN.js";
import "./shared-DIZPJKEV.js";
import "./shared-EJZXPSA6.js";
export {
  PERMIT2,
  deposit,
  evmPayer,
  toJson
};
