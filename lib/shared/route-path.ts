/** Returns the path of a route such as `GET /api/projects/:id` with its parameters, each percent-encoded. */
export function routePath(route: string, values: Readonly<Record<string, unknown>>): string {
  return route
    .slice(route.indexOf('/'))
    .replace(/[:*](\w+)/g, (_, name: string) => encodeURIComponent(String(values[name])))
}
