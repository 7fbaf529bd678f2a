/* A thread that packs one segment after the other; segment-threads.ts starts it. */
import { parentPort, type MessagePort } from 'node:worker_threads'
import { packError } from '../base/packed-error.js'
import { hastenCrc, hastenDeflate } from './hasten.js'
import { packSegment } from './segment.js'
import type { SegmentAnswer, SegmentTask } from './segment-threads.js'

const port = parentPort as MessagePort

async function work({ sources, level }: SegmentTask): Promise<SegmentAnswer> {
  try {
    return { kind: 'packed', zip: await packSegment(sources, level) }
  } catch (error) {
    return { kind: 'failed', error: packError(error) }
  }
}

hastenCrc()
hastenDeflate()
port.on('message', async (task: SegmentTask) => {
  const answer = await work(task)
  port.postMessage(answer, answer.kind === 'packed' ? [answer.zip.buffer] : [])
})
