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
