/* A thread that packs one segment or piece after the other. segment-threads.ts starts it. */
import { serveThread } from '../base/workers.js'
import { packPiece } from './large.js'
import { packInMemory } from './segment-memory.js'
import type { PackTask } from './segment-threads.js'
import { digestSources } from './source.js'

function work(task: PackTask): Uint8Array<ArrayBuffer> {
  if (task.kind === 'piece') return packPiece(task)
  return task.kind === 'digest' ? digestSources(task.sources) : packInMemory(task.sources, task.level)
}

serveThread(work, packed => [packed.buffer])
