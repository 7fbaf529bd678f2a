import t from 'tap'
import { allowedEnvFault, maxVariableBytes, variableNameFault, variableValueFault } from '../../lib/model/variable.js'

t.test('accepts valid names and refuses others', async t => {
  for (const name of ['A', '_x', 'app_port', 'DB_PASSWORD', 'HOME', 'PATHS', 'a1'])
    t.equal(variableNameFault(name), null, name)
  const cases: Array<[string, RegExp]> = [
    ['', /not a variable name/],
    ['1A', /not a variable name/],
    ['A-B', /not a variable name/],
    ['A B', /not a variable name/],
    ['A=B', /not a variable name/],
    ['A\n', /not a variable name/],
    ['Ä', /not a variable name/],
    ['x'.repeat(201), /longer/],
    ['SVC_TOKEN', /svc itself/],
    ['SVC_', /svc itself/],
    ['PATH', /never be set/],
    ['LD_PRELOAD', /never be set/],
    ['DYLD_INSERT_LIBRARIES', /never be set/],
    ['NODE_OPTIONS', /never be set/],
    ['BASH_ENV', /never be set/],
    ['IFS', /never be set/]
  ]
  for (const [name, why] of cases) t.match(variableNameFault(name), why, name)
})

t.test('accepts valid values and never shows a refused value', async t => {
  for (const value of ['', 'x', 'a=b', 'two\nlines\r\n\tthree', '秘密', '😀'])
    t.equal(variableValueFault(value, false), null, JSON.stringify(value))
  const cases: Array<[value: string, secret: boolean, why: RegExp]> = [
    ['geheim\0', false, /U\+0000/],
    ['geheim\x1b[0m', false, /U\+001B/],
    ['geheim\x7f', true, /U\+007F/],
    ['geheim\ud800', false, /U\+D800/],
    ['g'.repeat(maxVariableBytes + 1), false, /longer than 64 KiB/],
    ['ü'.repeat(maxVariableBytes / 2 + 1), true, /longer/],
    ['', true, /too short/],
    ['gem', true, /at least 4/],
    ['ge\nhe\nim', true, /at least 4/],
    ['  ge   ', true, /at least 4/]
  ]
  for (const [value, secret, why] of cases) {
    const fault = variableValueFault(value, secret) ?? ''
    t.match(fault, why)
    t.notOk(fault.includes('gehe'), 'never shows it')
  }
  t.equal(variableValueFault('{\n"key": 1\n}', true), null, 'one long line is enough')
})

t.test('accepts names, and prefixes that end with *', async t => {
  for (const entry of ['NODE_ENV', '_', 'x9', 'APP_*', 'a*', 'P*', 'A'.repeat(200)])
    t.equal(allowedEnvFault(entry), null, entry)
})

t.test('refuses anything else with the reason', async t => {
  for (const entry of ['', '9A', 'A B', 'A=B', 'A-B', '*A', 'A**', 'A*B', '**', 'É', 'A\n', 'A\0', 'A'.repeat(201)]) {
    t.type(allowedEnvFault(entry), 'string', JSON.stringify(entry))
  }
  t.match(allowedEnvFault('*'), 'every variable')
})

t.test('refuses a name that is never passed on', async t => {
  for (const entry of ['PATH', 'LD_PRELOAD', 'LD_*', 'SVC_X', 'SVC_*', 'NODE_OPTIONS', 'BASH_FUNC_*']) {
    t.match(allowedEnvFault(entry), 'never', entry)
  }
})
