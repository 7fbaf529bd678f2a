import { json, type Reply } from '../http/core/route.js'
import { attachment } from '../http/static/file.js'
import { line, list, multiline, nullable, optional, readFields, readRights } from '../base/fields.js'
import { startTime } from './upload.js'
import { type Handler, optionalBody, param } from './route.js'
import type { ApiServices } from './services.js'

/** Maximum length of a public key. */
const maxKeyLength = 8192

/** Fields of `POST /api/signing-keys`. */
export const trustFields = {
  /** A public key of ssh-keygen, minisign or svc, or a line of `allowed_signers`. */
  public: multiline({ min: 1, max: maxKeyLength }),
  /** Default: the name in the key. */
  name: optional(line({ min: 1, max: 100, trim: true })),
  /** The projects whose releases it may sign. Default: all. */
  projectIds: nullable(list(line({ min: 1, max: 100 }), { min: 1, max: 1000 })),
  /** From when it may sign. */
  notBefore: startTime,
  /** Until when it may sign. */
  notAfter: startTime
}
/** Fields of `POST /api/signing-keys/:id/revoke`. */
export const revokeKeyFields = {
  /** From when on what it has signed is not accepted. Default: now. */
  since: startTime
}

/** Handlers of the keys that may sign releases. */
export async function signingKeyHandlers({ deployer, ...doors }: ApiServices) {
  const signingKeys = await doors.signingKeys()
  return {
    /** `GET /api/signing-keys`: the keys by name, and those of the file. */
    list: () => json({ items: signingKeys.list(), file: deployer.signersFile() }),

    /** `POST /api/signing-keys`: trusts a key. */
    trust: async request => {
      const key = await signingKeys.trust(readRights(await request.json(), trustFields), request.actor)
      return json({ success: true, key })
    },

    /** `POST /api/signing-keys/:id/revoke`: revokes a key. */
    revoke: async request => {
      const { since } = readFields(await optionalBody(request), revokeKeyFields)
      const given = { since: since ?? undefined, actor: request.actor }
      return json({ success: true, ...(await signingKeys.revoke(param(request, 'id'), given)) })
    }
  } satisfies Record<string, Handler>
}

/** Handlers of the statement of a deployment, its signatures, and the list of its components. */
export function attestationHandlers({ deployer, records }: ApiServices) {
  return {
    /** `GET /api/deployments/:id/attestations`: lists them. */
    list: async request => {
      const { id } = records.find(request, param(request, 'id'))
      return json({ attestations: await deployer.attestations(id) })
    },

    /** `GET /api/deployments/:id/attestations/:name`: always an attachment. */
    get: async (request): Promise<Reply> => {
      const { id } = records.find(request, param(request, 'id'))
      const { name, type, content } = await deployer.attestation(id, param(request, 'name'))
      const headers = { 'content-type': type, 'content-disposition': attachment(`${id}.${name}`) }
      return { kind: 'bytes', status: 200, headers, body: content }
    }
  } satisfies Record<string, Handler>
}
