import type { Test } from 'tap'
import { Projects } from '../../lib/projects/projects.js'
import { admin, deployStage } from './deploy-stage.js'

/**
 * A program that a test kills: creates projects, deploys, rolls back and deletes the projects again, in the data
 * directory in argv.
 */
const [, , directory = ''] = process.argv
const stage = await deployStage({ teardown: () => {} } as unknown as Test, directory)
const { store, clock, ids, home, deployer, headers } = stage
const projects = new Projects({
  store,
  clock,
  ids,
  home: home.directory,
  audit: { within: () => {} },
  deployments: deployer,
  headers
})
for (let round = 0; ; round++) {
  const project = await stage.addProject()
  const { id } = await stage.deploy(project, { 'a.txt': '1' })
  for (let round = 0; round < 3; round++) await (await deployer.rollback(id, { actor: admin })).finished
  await projects.remove(project.id, admin)
  // By now the threads are running.
  if (round === 0) process.stdout.write('ready\n')
}
