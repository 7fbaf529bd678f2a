import { EventEmitter } from 'node:events'
import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import type { Host } from '../../../lib/cli/host.js'
import { runWith } from '../../../lib/cli/service/runtime.js'
import { until } from '../../support/until.js'

/** A `bun` that is this shell script, and the host that finds it. */
function hostWith(directory: string, script: string | null): Host & EventEmitter {
  const path = join(directory, 'bun')
  if (script !== null) {
    writeFileSync(path, `#!/bin/sh\n${script}\n`)
    chmodSync(path, 0o755)
  }
  const env = { PATH: `${directory}:/usr/bin:/bin`, HERE: directory }
  return Object.assign(new EventEmitter(), { env, stdin: { isTTY: false } }) as unknown as Host & EventEmitter
}

t.test('svc runs with the named runtime and returns its exit code', async t => {
  const directory = t.testdir({})
  const host = hostWith(directory, 'echo "$@" >"$HERE/words"; exit 7')
  t.equal(await runWith('bun', ['serve', '--port', '0'], host), 7)
  t.match(readFileSync(join(directory, 'words'), 'utf8'), /bin\/svc\.js serve --port 0\n$/)
  t.same(host.eventNames(), [], 'nobody listens for signals any more')
})

t.test('forwards signals', async t => {
  const directory = t.testdir({})
  const host = hostWith(directory, 'trap "exit 9" TERM; : >"$HERE/ready"; while :; do sleep 0.05; done')
  const code = runWith('bun', [], host)
  await until(() => {
    try {
      return readFileSync(join(directory, 'ready')) !== null
    } catch {
      return false
    }
  })
  host.emit('SIGTERM')
  t.equal(await code, 9)
})

t.test('refuses a missing runtime', async t => {
  const host = hostWith(t.testdir({}), null)
  host.env = { PATH: t.testdirName }
  await t.rejects(runWith('bun', [], host), { code: 'no_bun' })
})
