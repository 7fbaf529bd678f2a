import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import t from 'tap'
import { bare } from './bare.js'

const group = fileURLToPath(new URL('group.js', import.meta.url))
const tap = pathToFileURL(fileURLToPath(import.meta.resolve('tap'))).href

t.test('an error that nothing catches fails its file, and the next file still runs', t => {
  const never = 'await new Promise(() => {})'
  const file = (work: string): string => `import t from '${tap}'\nt.test('a test', async t => { ${work} })\n`
  const directory = t.testdir({
    'thrown.test.mjs': file(`setTimeout(() => { throw new Error('thrown late') }); ${never}`),
    'rejected.test.mjs': file(`void Promise.reject(new Error('rejected')); ${never}`),
    'passes.test.mjs': file('t.pass()')
  })
  const files = ['thrown', 'rejected', 'passes'].map(name => join(directory, `${name}.test.mjs`))
  const { stdout, status } = spawnSync(...bare(process.execPath, [group, ...files]), {
    encoding: 'utf8',
    env: { ...process.env, TAP_TIMEOUT: '600' }
  })
  t.same(stdout.match(/^(not )?ok \d/gm), ['not ok 1', 'not ok 2', 'ok 3'])
  for (const message of ['thrown late', 'rejected']) t.match(stdout, message)
  t.equal(status, 1)
  t.end()
})
