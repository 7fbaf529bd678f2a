/*
 * The header with which a hub of a cluster tells another one for whom it sends a request:
 *
 *   Svc-Forwarded: <claim in base64url>.<HMAC-SHA256 in base64url>
 *
 * The claim is JSON: the hub, the address and the scheme of the client. The signature covers the claim, the method, the
 * target below the base path, and the credentials of the request, with a key that only the hubs of the cluster have. So
 * no client can claim an address, and the header of one request is worth nothing in another.
 */
import { createHmac, hkdfSync, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { ClientAddress } from '../core/route.js'

/** The name of the header. */
export const forwardedHeader = 'svc-forwarded'

/** The parts of a request that the signature covers. */
export interface SignedRequest {
  method: string
  /** Path and query below the base path of the server. */
  target: string
  headers: IncomingHttpHeaders
}

/** A client as a hub reports it. */
export type ForwardedClient = ClientAddress & Required<Pick<ClientAddress, 'hub'>>

/** Longest header that is read, in characters. */
const maxHeaderLength = 4096

/** Returns the key that signs the header, derived from the key of the cluster. */
export function forwardKeyOf(clusterKey: Uint8Array): Buffer {
  return Buffer.from(hkdfSync('sha256', clusterKey, '', 'svc forward 1', 32))
}

/** Returns the value of the header. */
export function writeForwarded(key: Uint8Array, client: ForwardedClient, request: SignedRequest): string {
  const claim = Buffer.from(JSON.stringify(client)).toString('base64url')
  return `${claim}.${signatureOf(key, claim, request).toString('base64url')}`
}

/** Returns the client that the header names; null if there is no header, or no hub of this cluster wrote it. */
export function readForwarded(key: Uint8Array, request: SignedRequest): ForwardedClient | null {
  const header = request.headers[forwardedHeader]
  if (typeof header !== 'string' || header.length > maxHeaderLength) return null
  const [claim = '', signature = ''] = header.split('.')
  const given = Buffer.from(signature, 'base64url')
  const right = signatureOf(key, claim, request)
  if (given.length !== right.length || !timingSafeEqual(given, right)) return null
  return Object.freeze(JSON.parse(Buffer.from(claim, 'base64url').toString()) as ForwardedClient)
}

function signatureOf(key: Uint8Array, claim: string, { method, target, headers }: SignedRequest): Buffer {
  const credentials = [headers.authorization ?? '', headers.cookie ?? '']
  return createHmac('sha256', key)
    .update(JSON.stringify([claim, method, target, ...credentials]))
    .digest()
}
