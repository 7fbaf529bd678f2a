/* A thread that packs one segment or piece after the other until it is sent null; segment-threads.ts starts it. */
import { parentPort, type MessagePort } from 'node:worker_threads'
import { packError } from '../base/packed-error.js'
import { packPiece } from './large.js'
import { packInMemory } from './segment-memory.js'
import type { PackAnswer, PackTask } from './segment-threads.js'

const port = parentPort as MessagePort

function work(task: PackTask): PackAnswer {
  try {
    return { kind: 'packed', packed: task.kind === 'piece' ? packPiece(task) : packInMemory(task.sources, task.level) }
  } catch (error) {
    return { kind: 'failed', error: packError(error) }
  }
}

port.on('message', (task: PackTask | null) => {
  if (task === null) return port.close()
  const answer = work(task)
  port.postMessage(answer, answer.kind === 'packed' ? [answer.packed.buffer] : [])
})
