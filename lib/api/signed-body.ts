/* Reads the bodies of requests that a node has signed: the signature covers their digest. */
import { Refusal } from '../base/errors.js'
import { sha256 } from '../base/digests.js'
import type { ApiRequest } from './route.js'

/** Reads the whole body, within the limits of the route. Refuses 400 `wrong_digest`, 413 `too_large`. */
export async function signedBytes(request: ApiRequest): Promise<Buffer> {
  const bytes = await request.bytes()
  if (sha256(bytes).toString('hex') === request.actor.node?.bodySha256) return bytes
  throw new Refusal('invalid', 'wrong_digest', 'The body of the request is not the one that was signed')
}

/** Reads the body as JSON. Refuses 400 `invalid_body`, and what `signedBytes` refuses. */
export async function signedJson(request: ApiRequest): Promise<unknown> {
  return jsonOf(await signedBytes(request))
}

/** Returns the value of a body. Refuses 400 `invalid_body`. */
export function jsonOf(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch (error) {
    throw new Refusal('invalid', 'invalid_body', 'Cannot read the body: it is not valid JSON', { cause: error })
  }
}
