import { expect, it } from "vitest";
import { limitsOf, textsOf } from "./limits";

it("reads every documented limit into the form and writes it back", () => {
  const limits = {
    weight: 4,
    in_flight: 50,
    rate: "600/minute",
    burst: 20,
    requests_per_second: 500,
    quotas: { tokens: 5000, hosts: 3 },
    email: { providers: ["resend", "outbox"], from: "Demo <mail@demo.example>", agents: ["sales"], per_minute: 20 },
  };
  expect(limitsOf(textsOf(limits))).toEqual(limits);
  expect(limitsOf(textsOf({}))).toEqual({});
});

it("leaves out what is empty, and keeps what is wrong for the server to refuse", () => {
  expect(limitsOf({ in_flight: " ", weight: "many", "email.providers": "smtp," })).toEqual({
    weight: "many",
    email: { providers: ["smtp"] },
  });
});
