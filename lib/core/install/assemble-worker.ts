/* A thread that reads kept archives. assemble.ts starts it. */
import { serveThread } from '../../base/workers.js'
import { type BaseResult, type BaseTask, doBaseTask } from './assemble.js'

serveThread<BaseTask, BaseResult>(task => doBaseTask(task))
