import type { Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { maxTreeBytes, tooLarge, treeMediaType } from '../archive/tree-wire.js'
import { Refusal } from '../base/refusal.js'
import { hasCode } from '../base/system-error.js'
import { formatBytes } from '../shared/size.js'
import type { ApiRequest } from './route.js'

/** A tree inflates to about four times its size; one of empty files with similar names to some dozen times. */
const maxRatio = 200
/** Size from which the ratio is checked. */
const ratioFromBytes = 1024 * 1024

/**
 * Reads the body of a request for a plan, and inflates it. Refuses: 415 `unsupported_type`, 413 `tree_too_large`, 400
 * `broken_gzip`, and the codes of the body.
 */
export async function readTreeBody({ headers, body }: Pick<ApiRequest, 'headers' | 'body'>): Promise<Buffer> {
  const type = (headers['content-type'] ?? '').split(';')[0]?.trim().toLowerCase()
  if (type !== treeMediaType) throw unsupported(`The body must be of the type ${treeMediaType}`)
  const coding = (headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (coding === 'identity') return collect(body, () => {})
  if (coding !== 'gzip') throw unsupported('The body may be encoded with gzip, and with nothing else')
  return inflate(body)
}

/** `check` is called with the number of bytes so far. */
async function collect(bytes: AsyncIterable<Buffer>, check: (length: number) => void): Promise<Buffer> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of bytes) {
    length += chunk.length
    if (length > maxTreeBytes) throw tooLarge(`it has more than ${formatBytes(maxTreeBytes)}`)
    check(length)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

async function inflate(body: Readable): Promise<Buffer> {
  const gunzip = createGunzip()
  const fail = (error: Error): void => void gunzip.destroy(error)
  body.on('error', fail)
  try {
    return await collect(body.pipe(gunzip), length => {
      if (length <= ratioFromBytes || length <= gunzip.bytesWritten * maxRatio) return
      throw tooLarge(`it inflates to more than ${maxRatio} times its size`)
    })
  } catch (error) {
    if (!hasCode(error, 'Z_DATA_ERROR', 'Z_BUF_ERROR', 'Z_MEM_ERROR')) throw error
    throw new Refusal('invalid', 'broken_gzip', 'The body is not valid gzip data')
  } finally {
    body.off('error', fail).unpipe(gunzip)
    gunzip.destroy()
  }
}

function unsupported(sentence: string): Refusal {
  return new Refusal('unsupported_type', 'unsupported_type', sentence)
}
