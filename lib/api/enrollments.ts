import { integer, nullable, readFields, withDefault } from '../base/fields.js'
import type { Fleet } from '../fleet/hub/fleet.js'
import { parseHost } from '../http/core/headers.js'
import { json } from '../http/core/route.js'
import { enrollmentLimits } from '../model/node.js'
import { nodeLabels } from '../model/node-labels.js'
import { nodeName } from '../model/node-name.js'
import { optionalBody } from './optional-body.js'
import { type ApiRequest, type Handler, param } from './route.js'

/** Fields of `POST /api/enrollments`. */
export const enrollmentFields = {
  /** The name of the node. Default: the machine proposes its host name. */
  name: nullable(nodeName),
  /** Labels of the node, in addition to those that the machine proposes. */
  labels: withDefault(nodeLabels, {}),
  /** How long the token is valid. Default: one hour. */
  seconds: withDefault(
    integer(enrollmentLimits.minSeconds, enrollmentLimits.maxSeconds),
    enrollmentLimits.defaultSeconds
  )
}

/** Dependencies of the handlers of enrollments. */
export interface EnrollmentsNeeds {
  fleet(): Promise<Fleet>
  /** The public URL of the server; null: unknown. */
  publicUrl: string | null
  /** The path of the server below its host: `/tools/svc`, or empty. */
  base: string
}

/** Handlers of the one-time tokens with which machines become nodes. Only the answer of `create` contains the token. */
export function enrollmentHandlers({ fleet, publicUrl, base }: EnrollmentsNeeds) {
  /** Returns the address of this server, as its caller reached it if no public one is configured. */
  const addressOf = ({ isSecure, headers: { host = '' } }: ApiRequest): string =>
    publicUrl ?? `${isSecure ? 'https' : 'http'}://${parseHost(host)?.name ? host.trim() : 'localhost'}${base}`

  return {
    /** `GET /api/enrollments`: those that are still valid. */
    list: async () => json({ success: true, enrollments: (await fleet()).enrollments.list() }),

    /** `POST /api/enrollments {name?, labels?, seconds?}`. */
    create: async request => {
      const given = readFields(await optionalBody(request), enrollmentFields)
      const { enrollments } = await fleet()
      const { enrollment, token } = await enrollments.create(given, request.actor)
      // An argument would be in the list of processes.
      const command = `SVC_ENROLL_TOKEN=${token} svc agent --hub ${addressOf(request)}`
      return json({ success: true, enrollment, token, command })
    },

    /** `DELETE /api/enrollments/:id`: the token is no longer accepted. */
    revoke: async request => {
      await (await fleet()).enrollments.revoke(param(request, 'id'), request.actor)
      return json({ success: true, message: 'The enrollment token was revoked' })
    }
  } satisfies Record<string, Handler>
}
