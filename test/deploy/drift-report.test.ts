import t from 'tap'
import { writeFileSync } from 'node:fs'
import { deployStage, never } from '../support/deploy-stage.js'

t.test('a target that cannot be read is a problem, not an empty list', async t => {
  const stage = await deployStage(t)
  const project = await stage.addProject()
  await stage.deploy(project, { a: 'one' })
  writeFileSync(`${stage.directory}/file`, 'x')
  await stage.change(project, { deployPath: `${stage.directory}/file` })
  const report = await stage.deployer.drift({ projectId: project.id, isFull: false, signal: never })
  t.match(report, { success: true, partial: true, problem: /is not a directory$/, count: 0, files: [] })
})
