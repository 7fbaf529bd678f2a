import type { Test } from 'tap'
import { findProject } from '../../lib/core/store/tables/projects.js'
import { deployStage } from './deploy-stage.js'

/** A program to be killed: deploys 800 files again and again into the data directory in argv. */
const [, , directory = '', projectId = ''] = process.argv
const stage = await deployStage({ teardown: () => {} } as unknown as Test, directory)
const project = findProject(stage.store, projectId)
if (project === undefined) throw new Error(`There is no project ${projectId}`)
for (let round = 0; ; round++) {
  const files = Object.fromEntries(
    Array.from({ length: 800 }, (_, index) => [`d${index % 7}/f${index}`, `round ${round}`])
  )
  const run = await stage.push(project, files)
  process.stdout.write(`${run.deployId}\n`)
  await run.finished
}
