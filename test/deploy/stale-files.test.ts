import t from 'tap'
import { utimesSync } from 'node:fs'
import { basename, join } from 'node:path'
import { findStaleFiles } from '../../lib/deploy/stale-files.js'

t.test('files in tmp that nobody works with any more', async t => {
  const upload = (letter: string): string => `${letter.repeat(43)}.zip`
  const changes = (letter: string): string => `dep_${letter.repeat(16)}.changes`
  const old = [upload('a'), changes('b'), changes('c'), 'somebody-elses.txt']
  const tmp = t.testdir(Object.fromEntries([...old, upload('d')].map(name => [name, ''])))
  const nowMs = Date.now()
  const seconds = nowMs / 1000 - 2 * 60 * 60
  for (const name of old) utimesSync(join(tmp, name), seconds, seconds)
  const isLive = (deployId: string): boolean => changes('c').startsWith(deployId)
  const found = await findStaleFiles({ tmp }, { nowMs, isLive })
  t.same(found.map(path => basename(path)).sort(), [upload('a'), changes('b')])
  t.same(await findStaleFiles({ tmp: join(tmp, 'missing') }, { nowMs, isLive }), [])
})
