import t from 'tap'
import {
  countEnrollments,
  deleteEnrollment,
  findEnrollment,
  findEnrollmentByDigest,
  insertEnrollment,
  listEnrollments,
  removeExpiredEnrollments,
  useEnrollment,
  type StoredEnrollment
} from '../../../lib/store/tables/enrollments.js'
import { openStage } from '../../support/store.js'

const one: StoredEnrollment = {
  id: 'enr_a',
  digest: 'd1',
  name: 'plant-a',
  labels: { zone: 'eu' },
  createdAt: '2030-01-01T00:00:00.000Z',
  createdBy: 'admin',
  expiresAt: '2030-01-01T01:00:00.000Z',
  nodeId: null
}
const two: StoredEnrollment = { ...one, id: 'enr_b', digest: 'd2', name: null, expiresAt: '2030-01-01T02:00:00.000Z' }

t.test('keeps enrollments until they expire', async t => {
  const { store } = await openStage(t)
  await store.write(tx => {
    insertEnrollment(tx, one)
    insertEnrollment(tx, two)
  })
  t.same(listEnrollments(store, '2030-01-01T00:30:00.000Z'), [one, two])
  t.same(listEnrollments(store, one.expiresAt), [two])
  t.same(findEnrollment(store, 'enr_a'), one)
  t.same(findEnrollmentByDigest(store, 'd2'), two)
  t.equal(countEnrollments(store), 2)
  await store.write(tx => useEnrollment(tx, 'enr_b', 'node_a'))
  t.same(listEnrollments(store, one.expiresAt), [], 'a used one is not listed')
  t.same(findEnrollmentByDigest(store, 'd2'), { ...two, nodeId: 'node_a' })
  t.equal(countEnrollments(store), 1)
  t.equal(await store.write(tx => removeExpiredEnrollments(tx, one.expiresAt)), 1)
  t.equal(findEnrollmentByDigest(store, 'd1'), undefined)
  t.equal(await store.write(tx => deleteEnrollment(tx, 'enr_b')), true)
  t.equal(await store.write(tx => deleteEnrollment(tx, 'enr_b')), false)
})
