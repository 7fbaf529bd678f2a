import { Refusal } from '../base/refusal.js'

export interface Attempt {
  /** The server's address, without credentials. */
  address: string
  host: string
  /** The proxy's host and port, where one was used. */
  proxy: string | null
}

type Sentence = (attempt: Attempt) => string

const nobody: Sentence = ({ address, proxy }) =>
  proxy === null
    ? `nothing answers at ${address}: is the server running ("svc serve"), and is the address right?`
    : `the proxy ${proxy} does not answer (NO_PROXY leaves a host out)`
const unreachable: Sentence = ({ host }) => `there is no way to "${host}": check the network`
const tooLong: Sentence = ({ address }) => `${address} did not answer in time`
const closed: Sentence = ({ address }) =>
  `${address} closed the connection before it had answered` +
  (address.startsWith('http:') ? `. If that port expects TLS, the address begins with https://` : '')
const unknownIssuer: Sentence = ({ host }) =>
  `the certificate of "${host}" is signed by an authority unknown here (NODE_EXTRA_CA_CERTS=<file> adds one)`
const noTls: Sentence = ({ host, address }) =>
  `"${host}" does not speak TLS on that port: if it is plain HTTP, the address is "${address.replace(/^https:/, 'http:')}"`
const noHttp: Sentence = ({ address }) =>
  `what answers at ${address} does not speak HTTP: if that port expects TLS, the address begins with https://`

/** What Node calls it → what a person can do about it. */
const sentences: Record<string, Sentence> = {
  ECONNREFUSED: nobody,
  ENOTFOUND: ({ host }) => `there is no host named "${host}": check the address`,
  EAI_AGAIN: ({ host }) => `the name "${host}" could not be looked up: check the network`,
  EHOSTUNREACH: unreachable,
  ENETUNREACH: unreachable,
  ETIMEDOUT: tooLong,
  ECONNRESET: closed,
  EPIPE: closed,
  CERT_HAS_EXPIRED: ({ host }) => `the certificate of "${host}" has expired`,
  DEPTH_ZERO_SELF_SIGNED_CERT: unknownIssuer,
  SELF_SIGNED_CERT_IN_CHAIN: unknownIssuer,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: unknownIssuer,
  UNABLE_TO_GET_ISSUER_CERT: unknownIssuer,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: unknownIssuer,
  ERR_TLS_CERT_ALTNAME_INVALID: ({ host }) => `the certificate shown is not for "${host}"`,
  EPROTO: noTls,
  ERR_SSL_WRONG_VERSION_NUMBER: noTls,
  ERR_SSL_PACKET_LENGTH_TOO_LONG: noTls
}

/** A failure of the network as a refusal a person can act on; what is none is handed back as it is. */
export function explainNetworkError(error: unknown, attempt: Attempt): unknown {
  if (error instanceof Refusal || !(error instanceof Error)) return error
  const code = String((error as NodeJS.ErrnoException).code ?? '')
  const sentence = sentences[code] ?? (code.startsWith('HPE_') ? noHttp : undefined)
  if (sentence === undefined) return error
  return new Refusal('unavailable', 'unreachable', `The server could not be reached: ${sentence(attempt)}`, {
    cause: error
  })
}
