import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { adminToken, startServer } from '../../support/server.js'
import { noTerminal, svcOnTerminal } from '../../support/terminal.js'

const question = 'Server address'
const nobody = 'http://127.0.0.1:1'

t.test('asks for an address until a server answers', { skip: noTerminal }, async t => {
  const { url } = await startServer(t)
  const cwd = join(t.testdirName)
  const steps = [
    { see: question, type: 'not an address\r' },
    { see: question, type: `${nobody}\r` },
    { see: question, type: `${url}\r` },
    { see: 'oken', type: `${adminToken}\r` }
  ]
  const { code, text } = await svcOnTerminal(['login'], steps, { cwd })
  t.equal(code, 0, text)
  t.match(text, nobody)
  const stored = JSON.parse(readFileSync(join(cwd, '.svc/config.json'), 'utf8')) as object
  t.match(stored, { serverUrl: url, tokenOrigin: url })
})

t.test('accepts the same address given twice even if no server answers', { skip: noTerminal }, async t => {
  const cwd = t.testdir({})
  const steps = [
    { see: question, type: `${nobody}\r` },
    { see: question, type: `${nobody}\r` },
    { see: 'oken', type: '\u0003' }
  ]
  const { text } = await svcOnTerminal(['login'], steps, { cwd })
  t.equal(text.split(question).length - 1, 2, text)
})
