/* A thread that packs one segment or piece after the other. segment-threads.ts starts it. */
import { serveThread } from '../base/worker-thread.js'
import { packPiece } from './large.js'
import { packInMemory } from './segment-memory.js'
import type { PackTask } from './segment-threads.js'

serveThread(
  (task: PackTask) => (task.kind === 'piece' ? packPiece(task) : packInMemory(task.sources, task.level)),
  packed => [packed.buffer]
)
