import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import t from 'tap'
import { userHome } from '../../lib/base/user-home.js'

t.test('returns the home directory, or a place where nothing exists', async t => {
  t.match(userHome(), /^\//)
  if (process.getuid?.() !== 0) return t.comment('not without an entry in /etc/passwd: this needs root')
  const module = fileURLToPath(new URL('../../lib/base/user-home.js', import.meta.url))
  const code = `import(${JSON.stringify(module)}).then(m => { process.setuid(54321); console.log(m.userHome()) })`
  const { stdout, stderr } = spawnSync(process.execPath, ['-e', code], { env: {}, encoding: 'utf8' })
  t.equal(stdout, '/dev/null\n', stderr)
})
