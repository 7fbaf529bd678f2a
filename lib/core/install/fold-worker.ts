/* A thread that folds owned trees. fold.ts starts it. */
import { serveThread } from '../../base/workers.js'
import { doFoldTask, type FoldTask, type TornManifest } from './fold.js'

serveThread<FoldTask, TornManifest[]>(doFoldTask)
