/* A thread that folds owned trees. owned-tree.ts starts it. */
import { serveThread } from '../../base/workers.js'
import { doFoldTask, type FoldTask, type TornManifest } from './owned-tree.js'

serveThread<FoldTask, TornManifest[]>(doFoldTask)
