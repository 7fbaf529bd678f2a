import type { AccessToken } from '../../lib/model/access.js'
import type { Transaction } from '../../lib/core/store/database.js'

/** Returns a token of a deployer of one project, made on 1 January 2030 for 90 days, changed by `patch`. */
export function aToken(patch: Partial<AccessToken> = {}): AccessToken {
  return {
    id: 'tok_1',
    name: 'ci-shop',
    role: 'deployer',
    projectIds: ['proj_1'],
    allowedIps: [],
    showScripts: false,
    createdAt: '2030-01-01T00:00:00.000Z',
    createdBy: 'admin',
    expiresAt: '2030-04-01T00:00:00.000Z',
    lastUsedAt: null,
    lastUsedIp: null,
    rotatedAt: null,
    oldExpiresAt: null,
    oldLastUsedAt: null,
    revokedAt: null,
    secondFactor: false,
    ...patch
  }
}

/** Adds a token with its name as the digest of its secret, so nobody has the secret. */
export function insertNamedToken(tx: Transaction, patch: Partial<AccessToken>): AccessToken {
  const token = aToken(patch)
  const { id, name, role, createdAt, createdBy, expiresAt, rotatedAt, revokedAt } = token
  const values = [id, name, name, role, JSON.stringify(token.projectIds), createdAt, createdBy, expiresAt]
  const columns = 'id, name, digest, role, projectIds, createdAt, createdBy, expiresAt, rotatedAt, revokedAt'
  const sql = `INSERT INTO tokens (${columns}, allowedIps, showScripts) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '[]', 0)`
  tx.run(sql, ...values, rotatedAt, revokedAt)
  return token
}
