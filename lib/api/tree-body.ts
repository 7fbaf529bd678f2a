import { brokenGzip, isGzip, maxTreeBytes, tooLarge, treeMediaType } from '../archive/tree-wire.js'
import { refuseFullDisk } from '../deploy/failure.js'
import { Refusal } from '../base/errors.js'
import type { Spool, Spooled } from '../base/spool.js'
import { formatBytes } from '../shared/size.js'
import type { ApiRequest } from './route.js'

/** The request whose body is a tree. */
export type TreeRequest = Pick<ApiRequest, 'headers' | 'body' | 'caller'> & { hold(bytes: number): void }

const gzipMarkBytes = 2

/**
 * Receives the body of a request for a plan as it was sent: a tree, or one that is compressed with gzip, which the thread
 * of the comparison inflates. The caller discards it. Refuses: 415 `unsupported_type`, 413 `tree_too_large`, 400
 * `broken_gzip`, 429 `too_much_at_once`, 503 `server_full`, and the codes of the body.
 */
export async function receiveTree(request: TreeRequest, spool: Pick<Spool, 'receive'>): Promise<Spooled> {
  const { headers, body, caller } = request
  const type = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase()
  if (type !== treeMediaType) throw unsupported(`The body must be of the type ${treeMediaType}`)
  const coding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (coding !== 'identity' && coding !== 'gzip') {
    throw unsupported('The body may be encoded with gzip, and with nothing else')
  }
  const receiving = spool.receive(body as AsyncIterable<Buffer>, {
    caller,
    announcedBytes: Number(headers['content-length'] ?? 0),
    maxBytes: maxTreeBytes,
    tooLarge: () => tooLarge(`it has more than ${formatBytes(maxTreeBytes)}`),
    hold: bytes => request.hold(bytes)
  })
  const tree = await receiving.catch((error: unknown) => {
    throw refuseFullDisk(error)
  })
  if (coding !== 'gzip' || isGzip(await tree.read(gzipMarkBytes))) return tree
  await tree.discard()
  throw brokenGzip()
}

function unsupported(sentence: string): Refusal {
  return new Refusal('unsupported_type', 'unsupported_type', sentence)
}
