/*
 * A program that deploys `files` (JSON) into a project of the data directory in argv, and kills itself just before
 * it records the result of the extraction: the journal says `done`, the record does not. With `later` in argv, the
 * project's script kills it; with `recorded`, it kills itself as soon as the deployment is recorded.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { findProject } from '../../lib/core/store/tables/projects.js'
import { deployStage } from './deploy-stage.js'

const [, , directory = '', projectId = '', files = '{}', isLater] = process.argv
const stage = await deployStage({ teardown: () => {} } as unknown as Test, directory)
const project = findProject(stage.store, projectId)
if (project === undefined) throw new Error(`There is no project ${projectId}`)
const { deployId, finished } = await stage.push(project, JSON.parse(files) as Record<string, string>)
const { write } = stage.store
stage.store.write = work => {
  if (isLater === undefined && isDone()) process.kill(process.pid, 'SIGKILL')
  const written = write(work)
  if (isLater !== 'recorded') return written
  return written.then(result => {
    if (stage.row(deployId).status === 'success') process.kill(process.pid, 'SIGKILL')
    return result
  })
}
process.stdout.write(deployId)
await finished
throw new Error('It was not killed')

function isDone(): boolean {
  try {
    return readFileSync(join(stage.home.deployments, `${deployId}.undo`), 'utf8').endsWith('\ndone\n')
  } catch {
    return false
  }
}
