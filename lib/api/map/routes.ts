/*
 * The map of all routes: what each takes and answers. It is the declaration of the API: the document docs/openapi.json,
 * the clients and the table of routes (api/routes.ts) follow it.
 */
import type { AccessRoutes } from './access.js'
import type { AgentRoutes, FleetRoutes } from './fleet.js'
import type { DeploymentRoutes, DecisionRoutes } from './deployments.js'
import type { LockRoutes, ProjectRoutes, TreeRoutes } from './projects.js'
import type { LogRoutes } from './logs.js'
import type { ServerRoutes } from './server.js'
import type { PieceRoutes, PlanRoutes } from './uploads.js'
import type { TransferRoutes } from './transfer.js'
import type { Shape } from '../../base/fields.js'
import type { RollbackPlan } from '../../model/plan.js'
import type { Ran } from './common.js'

/** Every route by its method and path. */
export interface Routes
  extends AccessRoutes,
    AgentRoutes,
    DecisionRoutes,
    DeploymentRoutes,
    FleetRoutes,
    LockRoutes,
    LogRoutes,
    PieceRoutes,
    PlanRoutes,
    ProjectRoutes,
    ServerRoutes,
    TransferRoutes,
    TreeRoutes {}

/* What the clients derive from the map of routes: what a route takes, and what it answers. */

/** The name of a route: its method and path, for example `GET /api/projects/:id`. */
export type Route = keyof Routes & string

type Params<Path extends string> = Path extends `${string}/${':' | '*'}${infer Name}/${infer Rest}`
  ? Record<Name, string> & Params<`/${Rest}`>
  : Path extends `${string}/${':' | '*'}${infer Name}`
    ? Record<Name, string>
    : unknown

/** A value as a client sends it: lists may be read-only, and what is undefined is not sent. */
type Sent<T> =
  T extends ReadonlyArray<infer Item>
    ? ReadonlyArray<Sent<Item>>
    : T extends object
      ? { [Name in keyof T]?: Sent<T[Name]> | undefined }
      : T
type Body<B> = B extends Shape ? { [Name in keyof B]?: Sent<ReturnType<B[Name]>> | null | undefined } : B
type OrAbsent<T> = { [Name in keyof T]: T[Name] | undefined }

/** What a route takes: the parameters of its path, its query and its body. */
export type Given<R extends Route> = Params<R> &
  (Routes[R] extends { query: infer Q } ? { query?: OrAbsent<Q> } : unknown) &
  (Routes[R] extends { body?: infer B } ? { body?: Body<NonNullable<B>> } : unknown)

/** What a route answers as JSON. A client asks for a plan so; a run it follows as a stream. */
export type Answered<R extends Route> = Routes[R] extends { answer: infer A } ? Wanted<A> : never
type Wanted<A> = RollbackPlan extends A ? Exclude<A, Ran> : A

/** The arguments after the name of a route: what it takes, and what the client has besides. */
export type Arguments<R extends Route, Options> =
  Record<never, never> extends Given<R> ? [given?: Given<R> & Options] : [given: Given<R> & Options]
