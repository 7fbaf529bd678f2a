import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { svc } from '../../support/svc.js'

const here = 'http://127.0.0.1:5431'

/** A directory whose global configuration is this. */
function directoryWith(directory: string, config: object): { cwd: string; config(): unknown } {
  const path = join(directory, '.svc/config.json')
  mkdirSync(join(directory, '.svc'), { mode: 0o700 })
  writeFileSync(path, JSON.stringify(config), { mode: 0o600 })
  return { cwd: directory, config: () => JSON.parse(readFileSync(path, 'utf8')) as unknown }
}

t.test('logout removes only the token of the server', async t => {
  const { cwd, config } = directoryWith(t.testdir({}), { serverUrl: here, token: 'admin-token-1', tokenOrigin: here })
  const ended = await svc(['logout'], { cwd })
  t.match(ended, { code: 0, stderr: '' })
  t.match(ended.stdout, here)
  t.notMatch(ended.stdout, 'admin-token-1')
  t.strictSame(config(), { serverUrl: here })
  t.match(await svc(['logout'], { cwd }), { code: 0, stdout: here }, 'without a token it says so')
})

t.test('logout keeps the tokens of other servers', async t => {
  const stored = { serverUrl: here, token: 'admin-token-1', tokenOrigin: 'https://other.example' }
  const { cwd, config } = directoryWith(t.testdir({}), stored)
  t.match(await svc(['logout'], { cwd }), { code: 0 })
  t.strictSame(config(), stored)
})
