import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import type { Test } from 'tap'
import { findProject } from '../../lib/core/store/tables/projects.js'
import { deployStage } from './deploy-stage.js'

/**
 * A program that deploys 40 files twice into the data directory in argv, and kills itself when half of the second are in
 * place.
 */
const [, , directory = '', projectId = ''] = process.argv
const stage = await deployStage({ teardown: () => {} } as unknown as Test, directory)
const project = findProject(stage.store, projectId)
if (project === undefined) throw new Error(`There is no project ${projectId}`)
const deploy = async (round: number): Promise<void> => {
  const files = Array.from({ length: 40 }, (_, index) => [`d${index % 7}/f${index}`, `round ${round}`])
  const { finished } = await stage.push(project, Object.fromEntries(files) as Record<string, string>)
  await finished
}
await deploy(1)
let renames = 0
const { renameSync } = fs
fs.renameSync = (from, to) => {
  if (/\/f\d+$/.test(String(to)) && ++renames === 20) process.kill(process.pid, 'SIGKILL')
  renameSync(from, to)
}
syncBuiltinESMExports()
await deploy(2)
throw new Error('It was not killed')
