import type { Test } from 'tap'
import { admin, deployStage } from './deploy-stage.js'

/*
 * A program to be killed: begins and ends the maintenance of a project in the data directory in argv, again and again.
 * It prints the state after each change. With a number in argv, it kills itself instead of the write with that number:
 * 1 adds the row, 2 removes it.
 */
const [, , directory = '', projectId = '', killAt] = process.argv
const stage = await deployStage({ teardown: () => {} } as unknown as Test, directory)
const { maintenance } = stage.deployer
const { write } = stage.store
let writes = 0
stage.store.write = async work => {
  writes++
  if (String(writes) === killAt) process.kill(process.pid, 'SIGKILL')
  const written = await write(work)
  if (`after ${writes}` === killAt) process.kill(process.pid, 'SIGKILL')
  return written
}
const request = { projectId, actor: admin, force: false }
for (;;) {
  await maintenance.on({ ...request, reason: null })
  process.stdout.write('on\n')
  await maintenance.off({ ...request, mayEndOthers: true })
  process.stdout.write('off\n')
}
