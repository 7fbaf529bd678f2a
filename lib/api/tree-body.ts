import { brokenGzip, isGzip, maxTreeBytes, tooLarge, treeMediaType } from '../archive/tree-wire.js'
import { Refusal } from '../base/refusal.js'
import { formatBytes } from '../shared/size.js'
import type { ApiRequest } from './route.js'

/**
 * Returns the body of a request for a plan as it was sent: a tree, or one that is compressed with gzip, which the thread
 * of the comparison inflates. Refuses: 415 `unsupported_type`, 413 `tree_too_large`, 400 `broken_gzip`,
 * and the codes of the body.
 */
export async function readTreeBody({ headers, body }: Pick<ApiRequest, 'headers' | 'body'>): Promise<Buffer> {
  const type = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase()
  if (type !== treeMediaType) throw unsupported(`The body must be of the type ${treeMediaType}`)
  const coding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (coding !== 'identity' && coding !== 'gzip') {
    throw unsupported('The body may be encoded with gzip, and with nothing else')
  }
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    length += chunk.length
    if (length > maxTreeBytes) throw tooLarge(`it has more than ${formatBytes(maxTreeBytes)}`)
    chunks.push(chunk)
  }
  const bytes = Buffer.concat(chunks)
  if (coding === 'gzip' && !isGzip(bytes)) throw brokenGzip()
  return bytes
}

function unsupported(sentence: string): Refusal {
  return new Refusal('unsupported_type', 'unsupported_type', sentence)
}
