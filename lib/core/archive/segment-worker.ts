/* A thread that packs one segment or piece after the other. segments.ts starts it. */
import { serveThread } from '../../base/workers.js'
import { packInMemory, packPiece, type PackTask } from './segments.js'
import { digestSources } from './source.js'

function work(task: PackTask): Uint8Array<ArrayBuffer> {
  if (task.kind === 'piece') return packPiece(task)
  return task.kind === 'digest' ? digestSources(task.sources) : packInMemory(task.sources, task.level)
}

serveThread(work, packed => [packed.buffer])
