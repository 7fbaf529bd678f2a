/* A thread that folds owned trees, and digests manifests. owned-tree.ts starts it. */
import { serveThread } from '../../base/workers.js'
import { type DigestedManifest, digestManifest, doFoldTask, type FoldTask, type TornManifest } from './owned-tree.js'

serveThread<FoldTask, TornManifest[] | DigestedManifest>(task =>
  task.kind === 'digest' ? digestManifest(task) : doFoldTask(task)
)
