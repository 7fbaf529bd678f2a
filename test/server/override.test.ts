import { chmodSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { readOverride, type ServeOptions } from '../../lib/server/serve.js'

const token = 'abcdefghijklmnop1234567890XYZ'

t.test('ADMIN_TOKEN is read as a person wrote it, not as an editor or a secret store padded it', async t => {
  const read = async (environment: Record<string, string>, file = '') => {
    const cwd = t.testdir({ '.env.local': file })
    chmodSync(join(cwd, '.env.local'), 0o600)
    return (await readOverride({ cwd, environment } as unknown as ServeOptions))?.token
  }
  t.equal(await read({ ADMIN_TOKEN: `${token}\n` }), token)
  t.equal(await read({ ADMIN_TOKEN: `\ufeff${token}\r\n` }), token)
  t.equal(await read({ ADMIN_TOKEN: '\n' }), undefined)
  t.equal(await read({}, `\ufeffADMIN_TOKEN=${token}\n`), token)
  await t.rejects(read({ ADMIN_TOKEN: `${token}\n${token}` }), { code: 'invalid_field', message: /U\+000A/ })
})

t.test('a file that cannot be read is told of at the start, and changes no token later', async t => {
  const cwd = t.testdir({ '.env.local': {} })
  const warnings: string[] = []
  const report = { warn: (words: string) => void warnings.push(words) }
  const options = { cwd, environment: { ADMIN_TOKEN: token }, report } as unknown as ServeOptions
  t.match(await readOverride(options), { token, from: 'ADMIN_TOKEN' })
  t.match(warnings, [/Cannot read .*env\.local", so it sets nothing: is a directory/])
  await t.rejects(readOverride(options, true), { code: 'dotenv_unreadable' })
})
