/* A thread that packs one segment after the other until it is sent null; segment-threads.ts starts it. */
import { parentPort, type MessagePort } from 'node:worker_threads'
import { packError } from '../base/packed-error.js'
import { hastenCrc, hastenDeflate } from './hasten.js'
import { createReuse, packSegment } from './segment.js'
import type { SegmentAnswer, SegmentTask } from './segment-threads.js'

const port = parentPort as MessagePort

async function work({ sources, level }: SegmentTask): Promise<SegmentAnswer> {
  try {
    return { kind: 'packed', zip: await packSegment(sources, level, read) }
  } catch (error) {
    return { kind: 'failed', error: packError(error) }
  }
}

hastenCrc()
const read = hastenDeflate() ? createReuse() : undefined
port.on('message', async (task: SegmentTask | null) => {
  if (task === null) return port.close()
  const answer = await work(task)
  port.postMessage(answer, answer.kind === 'packed' ? [answer.zip.buffer] : [])
})
