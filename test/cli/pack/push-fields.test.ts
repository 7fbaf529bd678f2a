import t from 'tap'
import { effectiveConfig } from '../../../lib/base/config/precedence.js'
import { formFields, variables } from '../../../lib/cli/pack/push-fields.js'
import { nothingKnown } from '../../../lib/cli/run-result.js'

const layers = {
  environment: {},
  dotenv: { values: {}, warnings: [], path: '' },
  project: null,
  global: { path: '', config: {} },
  env: null
}

function configOf(flags: object) {
  return effectiveConfig({ ...layers, flags } as never)
}

t.test('variables are read as NAME=value, and their values may contain anything', async t => {
  t.same(variables(['A=1', 'B=x=y', 'C=', 'D=two\nlines']), { A: '1', B: 'x=y', C: '', D: 'two\nlines' })
  for (const pair of ['A', '=1', '1A=1', 'A-B=1', ''])
    t.throws(() => variables([pair]), { message: /--set-env cannot be/ }, pair)
})

t.test('what is not configured is not sent, so that the server decides', async t => {
  const fields = formFields(configOf({}), nothingKnown(), { seconds: null, checkUrl: null })
  t.same(
    Object.values(fields).filter(value => value !== undefined),
    []
  )
})

t.test('scripts, variables, message, origin and confirmation become fields', async t => {
  const config = configOf({ pre: 'stop', post: 'start', postDeployAsync: true, setEnv: { A: '1' } })
  const known = { ...nothingKnown(), message: 'New prices' }
  t.same(formFields(config, known, { seconds: 90, checkUrl: null }), {
    preDeploy: 'stop',
    postDeploy: 'start',
    postDeployAsync: 'true',
    env: '{"A":"1"}',
    message: 'New prices',
    confirmSeconds: '90',
    provenance: undefined
  })
})
