import { reasonOf, Refusal } from '../../base/errors.js'

/** A request that failed, for the error message. */
export interface Attempt {
  /** Address of the server, without credentials. */
  address: string
  host: string
  /** Host and port of the proxy; null if none was used. */
  proxy: string | null
}

/** Returns the explanation of an error. `reason` describes its code. */
type Sentence = (attempt: Attempt, reason: string) => string

const refused: Sentence = ({ address, proxy }, reason) =>
  proxy === null
    ? `${reason} by ${address}. Start the server with "svc serve", or check the address`
    : `${reason} by the proxy ${proxy}. Check the proxy, or use NO_PROXY to bypass it for this host`
const checkNetwork: Sentence = ({ host }, reason) => `${reason}: "${host}". Check the network`
const tooLong: Sentence = ({ address }, reason) => `${reason}: ${address} did not answer in time`
const closed: Sentence = ({ address }, reason) =>
  `${reason}: ${address} closed the connection before it answered` +
  (address.startsWith('http:') ? `. If that port expects TLS, use an address with https://` : '')
const unknownIssuer: Sentence = ({ host }) =>
  `the certificate of "${host}" is signed by an unknown authority. Use NODE_EXTRA_CA_CERTS=<file> to trust it`
const noTls: Sentence = ({ host, address }) =>
  `"${host}" does not speak TLS on that port. For plain HTTP, use "${address.replace(/^https:/, 'http:')}"`
const noHttp: Sentence = ({ address }) =>
  `${address} does not speak HTTP. If that port expects TLS, use an address with https://`

/** Maps the error codes of Node to explanations. */
const sentences: Record<string, Sentence> = {
  ECONNREFUSED: refused,
  ENOTFOUND: ({ host }, reason) => `${reason}: "${host}". Check the address`,
  EAI_AGAIN: checkNetwork,
  EHOSTUNREACH: checkNetwork,
  ENETUNREACH: checkNetwork,
  ETIMEDOUT: tooLong,
  ECONNRESET: closed,
  EPIPE: closed,
  CERT_HAS_EXPIRED: ({ host }) => `the certificate of "${host}" has expired`,
  DEPTH_ZERO_SELF_SIGNED_CERT: unknownIssuer,
  SELF_SIGNED_CERT_IN_CHAIN: unknownIssuer,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownIssuer,
  UNABLE_TO_GET_ISSUER_CERT: unknownIssuer,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownIssuer,
  ERR_TLS_CERT_ALTNAME_INVALID: ({ host }) => `the certificate is not valid for "${host}"`,
  EPROTO: noTls,
  ERR_SSL_WRONG_VERSION_NUMBER: noTls,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: noTls
}

/**
 * Converts a network error to a refusal (`unavailable`) unreachable that says what to do. Returns other errors as they
 * are.
 */
export function explainNetworkError(error: unknown, attempt: Attempt): unknown {
  if (error instanceof Refusal || !(error instanceof Error)) return error
  const code = String((error as NodeJS.ErrnoException).code ?? '')
  const sentence = sentences[code] ?? (code.startsWith('HPE_') ? noHttp : undefined)
  if (sentence === undefined) return error
  return new Refusal('unavailable', 'unreachable', `Cannot reach the server: ${sentence(attempt, reasonOf(error))}`, {
    cause: error
  })
}
