import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { createSealing } from '../../lib/server/sealing.js'
import { createVariablesKey } from '../../lib/projects/variables-key.js'
import { openStage } from '../support/store.js'

t.test('encrypts with the key of the variables, for one token', async t => {
  const { store, directory } = await openStage(t)
  const variablesKey = join(directory, 'variables.key')
  const sealing = createSealing(store, createVariablesKey(variablesKey), 'second factor')
  const sealed = await sealing.seal('tok_a', 'the-secret')
  t.notMatch(sealed, 'the-secret')
  t.equal(await sealing.unseal('tok_a', sealed), 'the-secret')
  const ofRollout = createSealing(store, createVariablesKey(variablesKey), 'rollout')
  await t.rejects(ofRollout.unseal('tok_a', sealed), { code: 'variables_key' }, 'of another kind')
  await t.rejects(sealing.unseal('tok_b', sealed), { code: 'variables_key' }, 'a copied row is useless')
  const key = readFileSync(variablesKey)
  rmSync(variablesKey)
  await t.rejects(sealing.unseal('tok_a', sealed), { code: 'variables_key', message: /is missing/ })
  writeFileSync(variablesKey, 'damaged')
  await t.rejects(sealing.seal('tok_a', 'x'), { code: 'variables_key' })
  writeFileSync(variablesKey, key)
  t.equal(await sealing.unseal('tok_a', sealed), 'the-secret')
})
