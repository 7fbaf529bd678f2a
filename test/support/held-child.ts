/*
 * A program that deploys into a project of the data directory in argv, waits for the confirmation, confirms or reverts,
 * and kills itself at the n-th write of a record: before it if n is even, else after it.
 */
import type { Test } from 'tap'
import { findProject } from '../../lib/core/store/tables/projects.js'
import { admin, deployStage } from './deploy-stage.js'
import { until } from './until.js'

const [, , directory = '', projectId = '', action = '', n = ''] = process.argv
const stage = await deployStage({ teardown: () => {} } as unknown as Test, directory)
const project = findProject(stage.store, projectId)
if (project === undefined) throw new Error(`There is no project ${projectId}`)
const { write } = stage.store
let writes = 0
const kill = (): void => void process.kill(process.pid, 'SIGKILL')
stage.store.write = async work => {
  const isLast = ++writes === Number(n)
  if (isLast && writes % 2 === 0) kill()
  const result = await write(work)
  if (isLast) kill()
  return result
}
const confirmSeconds = action === 'expire' ? 0.2 : 60
const run = await stage.push(project, { 'a.txt': '2', 'new/b.txt': '2' }, { confirmSeconds })
process.stdout.write(run.deployId)
if (action === 'expire') {
  await run.finished
} else {
  await until(() => stage.deployer.confirmUntil(run.deployId) !== null)
  if (action === 'confirm') await stage.deployer.confirm(run.deployId, admin)
  else await stage.deployer.revert(run.deployId, admin)
}
process.exit(0)
