import { existsSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { Refusal } from '../../../lib/base/errors.js'
import { startOwnNode } from '../../../lib/server/cluster/own-node.js'
import { matching } from '../../support/sentences/matching.js'
import { until } from '../../support/until.js'

t.test('a node waits for a token, says each reason, and ends with its hub', async t => {
  const directory = t.testdir()
  const told: string[] = []
  let asked = 0
  const node = startOwnNode({
    directory,
    url: 'http://127.0.0.1:1',
    caFile: null,
    environment: { PATH: process.env['PATH'] },
    async enroll() {
      if (asked++ === 0) throw new Refusal('unavailable', 'no_leader', 'Nobody leads')
      throw new Refusal('conflict', 'name_taken', 'The name is used')
    },
    warn: line => void told.push(line)
  })
  await until(() => told.length === 2)
  t.match(told[0], /Cannot enroll the node of this hub yet: Nobody leads/)
  t.match(told[1], matching('"', join(directory, 'node'), '" does not have its key. Restore the backup'))
  await node.stop()
  t.equal(asked, 2)
  t.ok(existsSync(join(directory, 'node')))
})
