/** A list item (§2.12): the instances of a cluster are one application. */
export interface Pm2App {
  name: string
  pmId: number
  status: string
}
